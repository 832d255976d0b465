"""The published figures, by id."""

import json
from pathlib import Path

VECTORS = {
    one["id"]: one for one in json.loads((Path(__file__).parent / "published" / "vectors.json").read_text())["vectors"]
}
