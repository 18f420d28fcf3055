module nstance/test/peers/go_config_hash

go 1.24
