module example.com/ottla/fake

go 1.21
