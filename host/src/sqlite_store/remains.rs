//! What `secure_delete` leaves of rows (R17): when SQLite moves rows from page to page, to make room, it leaves the old bytes
//! in the part of the page that belongs to no row, and only overwrites the row itself when that is deleted later.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::store::Rows;

use super::open::read_at;

/// The first byte of a page with rows of a table. Pages of other kinds that hold texts begin with a zero.
const ROWS: u8 = 13;

/// The first byte of a page with the numbers of the pages below it in a table.
const ABOVE_ROWS: u8 = 5;

/// Whether a page with rows has anything in the part that belongs to none. What is in the log is not looked at.
pub(super) fn are_left(connection: &Connection) -> Rows<bool> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (size, pages) = (number("page_size")?, number("page_count")?);
    let mut page = vec![0; usize::try_from(size).unwrap_or_default()];
    let of_schema = schema_pages(connection, &mut page)?;
    for number in 1..=pages {
        if of_schema.contains(&number) {
            continue;
        }
        read_at(connection, &mut page, (number - 1) * size)?;
        if has_remains(&page) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// From the front: the kind, three numbers, where the rows of each are, nothing, the rows.
fn has_remains(page: &[u8]) -> bool {
    let mut end = 8 + 2 * usize::from(two(page, 3));
    // 0 stands for 65536, which does not fit.
    let rows = match two(page, 5) {
        0 => 65_536,
        rows => usize::from(rows),
    };
    // A page that says something else is damaged, which is found when it is read.
    if page.first() != Some(&ROWS) || end > rows || rows > page.len() {
        return false;
    }
    // A row that was deleted leaves where it was, behind where the others are. No text looks like that: in a page of this
    // size, the first of the two bytes would be a control character each time.
    let is_place = |number: u16| number > 8 && usize::from(number) < page.len();
    while page.len() <= 8_192 && end + 2 <= rows && is_place(two(page, end)) {
        end += 2;
    }
    page.get(end..rows).is_some_and(|free| free.iter().any(|byte| *byte != 0))
}

/// The pages that hold the schema, from the first one down. They have remains as soon as a file is made, also after it was
/// written anew, and of nothing but statements.
fn schema_pages(connection: &Connection, page: &mut [u8]) -> Rows<BTreeSet<i64>> {
    let mut found = BTreeSet::from([1]);
    let mut left = vec![1];
    while let Some(number) = left.pop() {
        read_at(connection, page, (number - 1) * page.len() as i64)?;
        // The first page begins with the file's header.
        let start = if number == 1 { 100 } else { 0 };
        if page.get(start) != Some(&ABOVE_ROWS) {
            continue;
        }
        // As with rows; each begins with the number of a page, and that of the last one stands before all.
        let rows = (0..usize::from(two(page, start + 3))).map(|row| usize::from(two(page, start + 12 + 2 * row)));
        let below: Vec<i64> = rows.chain([start + 8]).map(|at| four(page, at)).collect();
        left.extend(below.into_iter().filter(|page| *page > 0 && found.insert(*page)));
    }
    Ok(found)
}

/// The number at `at`; 0 behind the end.
fn two(page: &[u8], at: usize) -> u16 {
    page.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
}

fn four(page: &[u8], at: usize) -> i64 {
    page.get(at..at + 4).map_or(0, |four| i64::from(u32::from_be_bytes([four[0], four[1], four[2], four[3]])))
}
