-- How many pages a crawl found gone that an earlier one had stored; NULL for crawls before this was counted.
ALTER TABLE crawls ADD COLUMN gone BIGINT;
