"""Migrations: cuts that lie ahead, stages of a crossing, status, aging, deletion."""
