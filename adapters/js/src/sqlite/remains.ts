// What `secure_delete` leaves of rows (R17): when SQLite moves rows from page to page, to make room, it leaves the old bytes
// in the part of the page that belongs to no row, and only overwrites the row itself when that is deleted later.

import type { Connection } from './driver.js';
import { readAt } from './open_files.js';

/** The first byte of a page with rows of a table. Pages of other kinds that hold texts begin with a zero. */
const ROWS = 13;

/** Whether a page with rows has anything in the part that belongs to none. What is in the log is not looked at. */
export function areLeft(connection: Connection, handle: number): boolean {
  const number = (name: string) => Number(connection.once(`PRAGMA ${name}`)[0]?.[0]);
  const [size, pages] = [number('page_size'), number('page_count')];
  const page = Buffer.alloc(size);
  const zeroes = Buffer.alloc(size);
  // The first page begins with the file's header, and holds the schema.
  for (let number = 1; number < pages; number += 1) {
    readAt(handle, page, number * size);
    if (hasRemains(page, zeroes)) return true;
  }
  return false;
}

/** From the front: the kind, three numbers, where the rows of each are, nothing, the rows. */
function hasRemains(page: Buffer, zeroes: Buffer): boolean {
  const end = 8 + 2 * page.readUInt16BE(3);
  // 0 stands for 65536, which does not fit.
  const rows = page.readUInt16BE(5) || 65_536;
  // A page that says something else is damaged, which is found when it is read.
  if (page[0] !== ROWS || end > rows || rows > page.length) return false;
  return page.compare(zeroes, 0, rows - end, end, rows) !== 0;
}
