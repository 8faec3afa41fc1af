// Not a test: the program that a database belongs to, as a process of its own. It has the database open, runs each line
// that it reads, and answers each.

import { createInterface } from 'node:readline';
import { choose, connect } from '../dist/sqlite/driver.js';

const connection = connect(choose(undefined), process.argv[2]!);
console.log('reply: done');
for await (const line of createInterface({ input: process.stdin })) {
  try {
    connection.exec(line);
    console.log('reply: done');
  } catch (error) {
    console.log(`reply: ${String(error)}`);
  }
}
connection.close();
