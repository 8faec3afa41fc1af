-- What the file is: schema, oldest_reader, oldest_writer, scrub. One row. The first read of every transaction.
SELECT schema, oldest_reader, oldest_writer, scrub FROM store;
