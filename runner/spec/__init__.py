"""From YAML text with positions to strict, frozen models, with located errors."""
