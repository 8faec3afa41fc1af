// What `secure_delete` leaves of rows (R17): when SQLite moves rows from page to page, to make room, it leaves the old bytes
// in the part of the page that belongs to no row, and only overwrites the row itself when that is deleted later.

import type { Connection } from './driver.js';
import { readAt } from './open_files.js';

/** The first byte of a page with rows of a table. Pages of other kinds that hold texts begin with a zero. */
const ROWS = 13;

/** The first byte of a page with the numbers of the pages below it in a table. */
const ABOVE_ROWS = 5;

/** Whether a page with rows has anything in the part that belongs to none. What is in the log is not looked at. */
export function areLeft(connection: Connection, handle: number): boolean {
  const number = (name: string) => Number(connection.once(`PRAGMA ${name}`)[0]?.[0]);
  const [size, pages] = [number('page_size'), number('page_count')];
  const page = Buffer.alloc(size);
  const zeroes = Buffer.alloc(size);
  const ofSchema = schemaPages(handle, size);
  for (let number = 1; number <= pages; number += 1) {
    if (ofSchema.has(number)) continue;
    readAt(handle, page, (number - 1) * size);
    if (hasRemains(page, zeroes)) return true;
  }
  return false;
}

/** From the front: the kind, three numbers, where the rows of each are, nothing, the rows. */
function hasRemains(page: Buffer, zeroes: Buffer): boolean {
  let end = 8 + 2 * page.readUInt16BE(3);
  // 0 stands for 65536, which does not fit.
  const rows = page.readUInt16BE(5) || 65_536;
  // A page that says something else is damaged, which is found when it is read.
  if (page[0] !== ROWS || end > rows || rows > page.length) return false;
  // A row that was deleted leaves where it was, behind where the others are. No text looks like that: in a page of this
  // size, the first of the two bytes would be a control character each time.
  if (page.length <= 8_192) while (end + 2 <= rows && isPlace(page.readUInt16BE(end), page)) end += 2;
  return page.compare(zeroes, 0, rows - end, end, rows) !== 0;
}

function isPlace(number: number, page: Buffer): boolean {
  return number > 8 && number < page.length;
}

/**
 * The pages that hold the schema, from the first one down. They have remains as soon as a file is made, also after it was
 * written anew, and of nothing but statements.
 */
function schemaPages(handle: number, size: number): Set<number> {
  const found = new Set([1]);
  for (const number of found) {
    const page = Buffer.alloc(size);
    readAt(handle, page, (number - 1) * size);
    // The first page begins with the file's header.
    const start = number === 1 ? 100 : 0;
    if (page[start] !== ABOVE_ROWS) continue;
    // As with rows; each begins with the number of a page, and that of the last one stands before all.
    found.add(page.readUInt32BE(start + 8));
    const count = page.readUInt16BE(start + 3);
    for (let row = 0; row < count; row += 1) found.add(page.readUInt32BE(page.readUInt16BE(start + 12 + 2 * row)));
  }
  return found;
}
