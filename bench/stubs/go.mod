module nstance/bench/stubs

go 1.24.0
