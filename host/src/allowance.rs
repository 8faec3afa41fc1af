//! `max-bytes` of `memories.get` and `search`, for every store: which bodies are given with the rows.

/// How many bytes of bodies may still be given. From the first body that does not fit on, none is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    left: Option<usize>,
}

impl Allowance {
    /// At most this many bytes together.
    pub(crate) fn of(max_bytes: u32) -> Allowance {
        Allowance { left: Some(max_bytes as usize) }
    }

    /// Whether the next body, of this many bytes, is given.
    pub(crate) fn admits(&mut self, bytes: usize) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
        self.left.is_some()
    }
}
