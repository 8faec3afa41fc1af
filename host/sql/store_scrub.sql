-- Whether erased text may be in the log. :scrub, 0 or 1. Set in each transaction that erases text, and unset after the
-- truncating checkpoint that follows it: if that does not happen, whoever writes next makes one.
UPDATE store SET scrub = :scrub;
