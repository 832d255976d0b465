"""A change that is still ahead can be withdrawn, by a change that carries no lines of its own."""

import django.db.models.deletion
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION budgets_withdrawal_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM budgets_budgetchange c
        WHERE c.id = NEW.withdraws_id
          AND (c.cluster_id <> NEW.cluster_id OR c.parent_id <> NEW.parent_id OR c.withdraws_id IS NOT NULL
               OR c.effective_at <= NEW.created_at)
    ) THEN
        RAISE EXCEPTION 'only a change of the same level that is still ahead can be withdrawn'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'budget_withdrawal_is_of_a_planned_change';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER budgets_withdrawal_planned BEFORE INSERT ON budgets_budgetchange
    FOR EACH ROW WHEN (NEW.withdraws_id IS NOT NULL) EXECUTE FUNCTION budgets_withdrawal_check();
"""
BACKWARD = """
DROP TRIGGER budgets_withdrawal_planned ON budgets_budgetchange;
DROP FUNCTION budgets_withdrawal_check();
"""


class Migration(migrations.Migration):
    dependencies = (("budgets", "0003_hundred_percent_and_append_only"),)
    operations = (
        migrations.AddField(
            model_name="budgetchange",
            name="withdraws",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="withdrawn_by",
                to="budgets.budgetchange",
            ),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    )
