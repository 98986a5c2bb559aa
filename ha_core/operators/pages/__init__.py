"""Pages of Airflow's UI, as HTML. The plugin (`plugins/switchyard_pages.py`) checks who may see them."""
