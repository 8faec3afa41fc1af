//! What `secure_delete` leaves of rows (R17): when SQLite moves rows from page to page, to make room, it leaves the old bytes
//! in the part of the page that belongs to no row, and only overwrites the row itself when that is deleted later.

use rusqlite::Connection;

use crate::store::Rows;

use super::open::read_at;

/// The first byte of a page with rows of a table. Pages of other kinds that hold texts begin with a zero.
const ROWS: u8 = 13;

/// Whether a page with rows has anything in the part that belongs to none. What is in the log is not looked at.
pub(super) fn are_left(connection: &Connection) -> Rows<bool> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (size, pages) = (number("page_size")?, number("page_count")?);
    let mut page = vec![0; usize::try_from(size).unwrap_or_default()];
    // The first page begins with the file's header, and holds the schema.
    for number in 1..pages {
        read_at(connection, &mut page, number * size)?;
        if has_remains(&page) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// From the front: the kind, three numbers, where the rows of each are, nothing, the rows.
fn has_remains(page: &[u8]) -> bool {
    let number = |at: usize| page.get(at..at + 2).map_or(0, |two| usize::from(u16::from_be_bytes([two[0], two[1]])));
    // 0 stands for 65536, which does not fit.
    let (end, rows) = (
        8 + 2 * number(3),
        match number(5) {
            0 => 65_536,
            rows => rows,
        },
    );
    page.first() == Some(&ROWS) && page.get(end..rows).is_some_and(|free| free.iter().any(|byte| *byte != 0))
}
