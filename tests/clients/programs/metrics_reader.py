"""Reads what is printed for OpenMetrics, as strictly as Prometheus's own library does; prints each family's type."""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

print(json.dumps({each.name: each.type for each in text_string_to_metric_families(sys.stdin.read())}))
