"""What must never be: children of one parent above 100 %, a line for somebody else's child, a rewritten history."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION budgets_line_check() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE total bigint;
BEGIN
    SELECT sum(share_ppm) INTO total FROM budgets_budgetline WHERE change_id = NEW.change_id;
    IF total > 1000000 THEN
        RAISE EXCEPTION 'the budgets of one parent add up to % ppm, more than 1000000', total
            USING ERRCODE = 'check_violation', CONSTRAINT = 'budgets_of_a_parent_at_most_the_whole';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION budgets_line_child() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM budgets_budgetchange c JOIN projects_project p ON p.parent_id = c.parent_id
        WHERE c.id = NEW.change_id AND p.id = NEW.project_id
    ) THEN
        RAISE EXCEPTION 'project % is no child of the parent whose budgets change', NEW.project_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'budget_line_is_of_a_child';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION budgets_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the history of budgets is append-only'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'budgets_are_append_only';
END $$;
CREATE CONSTRAINT TRIGGER budgets_line_sum AFTER INSERT ON budgets_budgetline
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION budgets_line_check();
CREATE TRIGGER budgets_line_of_a_child BEFORE INSERT ON budgets_budgetline
    FOR EACH ROW EXECUTE FUNCTION budgets_line_child();
CREATE TRIGGER budgets_line_append_only BEFORE UPDATE OR DELETE ON budgets_budgetline
    FOR EACH ROW EXECUTE FUNCTION budgets_append_only();
CREATE TRIGGER budgets_change_append_only BEFORE UPDATE OR DELETE ON budgets_budgetchange
    FOR EACH ROW EXECUTE FUNCTION budgets_append_only();
"""
BACKWARD = """
DROP TRIGGER budgets_line_sum ON budgets_budgetline;
DROP TRIGGER budgets_line_of_a_child ON budgets_budgetline;
DROP TRIGGER budgets_line_append_only ON budgets_budgetline;
DROP TRIGGER budgets_change_append_only ON budgets_budgetchange;
DROP FUNCTION budgets_line_check();
DROP FUNCTION budgets_line_child();
DROP FUNCTION budgets_append_only();
"""


class Migration(migrations.Migration):
    dependencies = (("budgets", "0002_authors"),)
    operations = (migrations.RunSQL(FORWARD, BACKWARD),)
