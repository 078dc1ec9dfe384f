"""The zoo: whole networks that are converted, compared and timed, one by one."""
