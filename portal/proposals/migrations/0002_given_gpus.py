"""What a granted request was given, beside what it asked; of those granted before, it isn't known."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("proposals", "0001_requests_and_proposals")]

    operations = [
        migrations.AddField(
            model_name="grantrequest",
            name="given_gpus",
            field=models.DecimalField(blank=True, decimal_places=2, max_digits=14, null=True),
        ),
    ]
