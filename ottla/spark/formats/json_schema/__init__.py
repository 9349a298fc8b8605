"""JSON whose schemas a registry keeps."""
