// Makes generated/NAME.ranks: the byte sequences of OpenAI's public encodings in the order of their ranks, each after its
// length in one byte. It is all that src/tokens.ts needs of them, takes less room than a library that has them as text,
// and is read in some milliseconds. The sequences are OpenAI's, from https://github.com/openai/tiktoken under the MIT licence.
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const out = join(dirname(dirname(fileURLToPath(import.meta.url))), 'generated');
mkdirSync(out, { recursive: true });

for (const name of ['o200k_base', 'cl100k_base']) {
  const { bpe_ranks } = require(`js-tiktoken/ranks/${name}`);
  const tokens = [];
  for (const line of bpe_ranks.split('\n').filter(Boolean)) {
    const [, offset, ...texts] = line.split(' ');
    texts.forEach((text, index) => (tokens[Number(offset) + index] = Buffer.from(text, 'base64')));
  }
  const parts = [];
  for (let rank = 0; rank < tokens.length; rank++) {
    const token = tokens[rank];
    if (!token?.length || token.length > 255) throw new Error(`${name} has no token of 1 to 255 bytes of rank ${rank}`);
    parts.push(Buffer.of(token.length), token);
  }
  writeFileSync(join(out, `${name}.ranks`), Buffer.concat(parts));
}

writeFileSync(
  join(out, 'ranks.LICENSE'),
  `The .ranks files are the encodings of https://github.com/openai/tiktoken.

MIT License

Copyright (c) 2022 OpenAI, Shantanu Jain

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`,
);
