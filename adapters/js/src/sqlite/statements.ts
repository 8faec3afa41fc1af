// The statements of host/sql/, made ready for JavaScript. Drivers repair a text that is not UTF-8, and `node:sqlite`
// cuts one off at a NUL; so texts are read as their bytes, and rows.ts decodes them. That is derived from the
// statements here, so that none is written twice.

import { statements } from '../../generated/sql.js';

/** A statement of host/sql/, by its file's name. */
export type StatementName = keyof typeof statements;

const ready = new Map<StatementName, string>();

/** The text of a statement as it is run. */
export function sql(name: StatementName): string {
  let text = ready.get(name);
  if (text === undefined) ready.set(name, (text = withBytes(withHiddenValues(withoutComments(statements[name])))));
  return text;
}

/** Drivers look at each character of a statement; and what is said in a comment must not be taken for SQL below. */
function withoutComments(statement: string): string {
  return statement.replace(/--.*\n/g, '').trim();
}

/**
 * A statement that is planned once. SQLite would look at the values bound to some parameters and plan it anew for each,
 * which takes ten times as long as running it; drivers do not have the switch against that (QPSG). A plus sign before a
 * parameter changes nothing else.
 */
function withHiddenValues(statement: string): string {
  return statement.replace(/:\w+/g, '+$&');
}

/**
 * A SELECT whose texts come as BLOBs. A BLOB, which no column of ours may be, comes as a number that no column of ours
 * may be either. A column that is a subquery is left as it is: it would be run twice, and all of ours are lists of ids
 * in JSON, or numbers.
 */
function withBytes(statement: string): string {
  const columns = columnsOf(statement);
  if (columns === undefined) return statement;
  const read = columns.list.map((column, place) => {
    const expression = column.replace(/\s+AS\s+\w+$/, '');
    if (expression.includes('SELECT')) return `${expression} AS c${place}`;
    const bytes = `CASE typeof(${expression}) WHEN 'text' THEN CAST(${expression} AS BLOB)`;
    return `${bytes} WHEN 'blob' THEN 0.5 ELSE ${expression} END AS c${place}`;
  });
  return `${statement.slice(0, columns.start)} ${read.join(', ')} ${statement.slice(columns.end)}`;
}

/** The columns of the outermost SELECT, and where they stand; undefined: it is another kind of statement. */
function columnsOf(statement: string): { list: string[]; start: number; end: number } | undefined {
  if (!/^(?:SELECT|WITH)\b/.test(statement)) return undefined;
  const list: string[] = [];
  let start = -1;
  let column = -1;
  let depth = 0;
  for (const { 0: token, index } of statement.matchAll(/[(),]|'[^']*'|\b(?:SELECT|FROM|WHERE)\b/g)) {
    if (token === '(') depth += 1;
    else if (token === ')') depth -= 1;
    else if (depth > 0) continue;
    else if (token === 'SELECT') start = column = index + token.length;
    else if (start >= 0 && token === ',') {
      list.push(statement.slice(column, index).trim());
      column = index + 1;
    } else if (start >= 0 && (token === 'FROM' || token === 'WHERE')) {
      list.push(statement.slice(column, index).trim());
      return { list, start, end: index };
    }
  }
  return undefined;
}
