module nstance/test/peers/go_crypto

go 1.24
