package fake

import (
	"strings"
	"testing"
)

func TestRecordsAreReadBack(t *testing.T) {
	broker, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Stop()
	type body map[string]any
	if err := broker.Call("POST", "/topics", body{"name": "orders"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := broker.Call("POST", "/topics/orders/records", body{"value": "first"}, nil); err != nil {
		t.Fatal(err)
	}
	var records []struct{ Value string }
	if err := broker.Call("GET", "/topics/orders/records", nil, &records); err != nil {
		t.Fatal(err)
	}
	if len(records) != 1 || records[0].Value != "first" {
		t.Fatalf("found %v", records)
	}
	err = broker.Call("POST", "/faults", body{"api": "Prodce", "error": "INVALID_RECORD"}, nil)
	if err == nil || !strings.Contains(err.Error(), "Did you mean 'Produce'") {
		t.Fatalf("a misspelt fault was answered with %v", err)
	}
}
