module nstance/test/peers/go_json

go 1.24
