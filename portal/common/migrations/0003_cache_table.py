"""The cache's table: login throttling must work while the broker is away."""

from typing import Any

from django.core.management import call_command
from django.db import migrations


def cache_table_make(apps: Any, schema_editor: Any) -> None:
    call_command("createcachetable", database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    dependencies = (("common", "0002_authors"),)
    operations = (migrations.RunPython(cache_table_make, migrations.RunPython.noop),)
