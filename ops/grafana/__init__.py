"""Grafana dashboards: tables here, turned into `dashboards/*.json` by `python -m ops.grafana.write`."""
