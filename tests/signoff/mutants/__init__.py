"""Sign-off by mutation: faults injected into written layouts, and clean layouts drawn in other ways."""
