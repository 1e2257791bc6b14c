"""Makes an ordered list of trials from an experiment, with a time estimate. Changes nothing on hosts."""
