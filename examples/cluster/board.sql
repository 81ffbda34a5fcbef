-- A role for the board: it reads all tables, those that a later version makes included, and can change nothing.
-- Run it as the database's owner, who must be allowed to create roles, once the first `roarbench run` has made the tables:
--   psql "$ROARBENCH_DB" -v database=roarbench -v owner=roarbench -f board.sql
-- then give the role a password: \password roarbench_board
CREATE ROLE roarbench_board LOGIN CONNECTION LIMIT 20;
ALTER ROLE roarbench_board SET default_transaction_read_only = on;
GRANT CONNECT ON DATABASE :"database" TO roarbench_board;
GRANT USAGE ON SCHEMA public TO roarbench_board;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO roarbench_board;
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA public GRANT SELECT ON TABLES TO roarbench_board;
