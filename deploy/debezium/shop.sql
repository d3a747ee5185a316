-- The tables of the example: PostgreSQL makes them when its volume is new. One with a column `id` as its key, one whose
-- key has two columns, and one without a key, whose rows are told apart by everything in them.
CREATE TABLE prices (id int PRIMARY KEY, plan text NOT NULL, amount numeric(10, 2) NOT NULL);
CREATE TABLE stock (shop int, article int, pieces int NOT NULL, PRIMARY KEY (shop, article));
CREATE TABLE visits (page text, pieces int);
ALTER TABLE visits REPLICA IDENTITY FULL;

INSERT INTO prices VALUES (7, 'Family', 9), (8, 'Solo', 4), (9, 'Team', 20);
INSERT INTO stock VALUES (2, 31, 5), (2, 32, 6);
INSERT INTO visits VALUES ('/home', 1);
