module nstance/test/peers/go_config

go 1.24
