//! The usual delegation, so that a harness writes down only what differs.

use crate::contract::*;

impl Request {
    /// A delegation that names no memory, for one child: registered all the same (R14).
    pub fn new(task: impl Into<String>) -> Request {
        Request {
            task: task.into(),
            memory: None,
            capacity: None,
            priorities: Vec::new(),
            agent_type: None,
            ttl_seconds: None,
            children: 1,
            strict: false,
            carry: Carry::SnapshotRef,
            call_id: None,
            attributes: Vec::new(),
        }
    }

    /// The same with memories for a child of this capacity.
    pub fn with_memory(self, memory: MemoryField, capacity: Capacity) -> Request {
        Request { memory: Some(memory), capacity: Some(capacity), ..self }
    }
}

impl Capacity {
    /// So many tokens of this model; what does not fit is refused.
    pub fn tokens(amount: u32, model: impl Into<String>) -> Capacity {
        Capacity { budget: Budget::Tokens(amount), model: Some(model.into()), overflow: Overflow::Refuse }
    }

    /// So many bytes; what does not fit is refused.
    pub fn bytes(amount: u32) -> Capacity {
        Capacity { budget: Budget::Bytes(amount), model: None, overflow: Overflow::Refuse }
    }
}
