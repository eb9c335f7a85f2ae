"""What was claimed, what was measured, under which rule: and the page contract."""
