-- An approver may give a budget more for the present day or month. The next one begins without it.

ALTER TABLE budgets ADD COLUMN extra INTEGER NOT NULL DEFAULT 0 CHECK (extra >= 0);   -- in the unit of the budget
ALTER TABLE budgets ADD COLUMN extra_of INTEGER;     -- the start of the period that it was given in
