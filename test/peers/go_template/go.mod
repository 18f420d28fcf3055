module nstance/test/peers/go_template

go 1.24
