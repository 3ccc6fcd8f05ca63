from codea1_jax.cli import run_and_exit

run_and_exit()
