-- 2 of 3: its sessions have no agent any more. :agent, text.
UPDATE sessions SET agent = NULL WHERE agent = :agent;
