"""Charts in templates: `{% chart x %}` where it stands, `{% chart_scripts %}` once in the block `scripts`."""

from typing import Any

from django import template

from portal.dashboard.charts import Chart
from portal.dashboard.views_assets import PLOTLY_VERSION

register = template.Library()


@register.inclusion_tag("dashboard/charts_figure.html")
def chart(figure: Chart) -> dict[str, Any]:
    """The figure with its words, table and exports."""
    return {"chart": figure}


@register.inclusion_tag("dashboard/charts_scripts.html")
def chart_scripts() -> dict[str, Any]:
    """plotly.js and what draws with it."""
    return {"plotly_version": PLOTLY_VERSION}
