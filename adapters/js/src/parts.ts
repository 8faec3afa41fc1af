// Long answers of tools, in parts that a harness hands on whole. OpenCode cuts what is over 50 KB or 2,000 lines, and keeps
// the whole of it in a file of its own.

/** What one part has at most. */
const BYTES = 40_000;
const LINES = 1_500;

/** One part of a text, and which it is if there are several. `part` counts from 1; one that is not there is said. */
export function inParts(text: string, part = 1): string {
  const parts = split(text);
  const wanted = parts[part - 1];
  if (wanted === undefined) return `Error: there is no part ${part}; there are ${parts.length}.`;
  if (parts.length === 1) return wanted;
  const next = part < parts.length ? `; ask for part ${part + 1} next` : '';
  return `${wanted}\n[part ${part} of ${parts.length}${next}]`;
}

/** Between characters, and between lines where that is possible. */
function split(text: string): string[] {
  const parts: string[] = [];
  let current = '';
  let bytes = 0;
  let lines = 0;
  const end = () => {
    parts.push(current);
    [current, bytes, lines] = ['', 0, 0];
  };
  for (const line of text.split(/(?<=\n)/)) {
    for (const piece of pieces(line)) {
      const size = Buffer.byteLength(piece);
      if (bytes + size > BYTES || lines === LINES) end();
      current += piece;
      bytes += size;
    }
    lines += 1;
  }
  if (current !== '' || parts.length === 0) end();
  return parts;
}

/** A line that is too long by itself, in pieces of at most so many bytes. */
function* pieces(line: string): Generator<string> {
  if (Buffer.byteLength(line) <= BYTES) return yield line;
  let piece = '';
  let bytes = 0;
  for (const character of line) {
    const size = Buffer.byteLength(character);
    if (bytes + size > BYTES) {
      yield piece;
      [piece, bytes] = ['', 0];
    }
    piece += character;
    bytes += size;
  }
  if (piece !== '') yield piece;
}
