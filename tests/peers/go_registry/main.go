// Registers, looks up, checks and deletes with franz-go's registry client; prints the results for the test.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	ctx := context.Background()
	client := must(sr.NewClient(sr.URLs(os.Args[1])))
	schemas := []sr.Schema{
		{Type: sr.TypeAvro, Schema: `{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}`},
		{Type: sr.TypeJSON, Schema: `{"type":"object"}`},
		{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; message Order { int32 id = 1; }`},
	}
	for _, schema := range schemas {
		subject := "go-" + schema.Type.String()
		made := must(client.CreateSchema(ctx, subject, schema))
		byID := must(client.SchemaByID(ctx, made.ID))
		found := must(client.LookupSchema(ctx, subject, schema))
		fmt.Println(schema.Type, made.Version, byID.Type == schema.Type, found.ID == made.ID)
	}
	subject := "go-" + schemas[0].Type.String()
	wrong := sr.Schema{Schema: `"string"`}
	verdict := must(client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), subject, -1, wrong))
	fmt.Println("compatible", verdict.Is, len(verdict.Messages) > 0)
	var refused *sr.ResponseError
	if _, err := client.CreateSchema(ctx, subject, wrong); errors.As(err, &refused) {
		fmt.Println("refused", refused.StatusCode, refused.ErrorCode)
	}
	for _, result := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, subject) {
		fmt.Println("level", must(result.Level, result.Err))
	}
	fmt.Println("subjects", len(must(client.Subjects(ctx))), must(client.SubjectVersions(ctx, subject)))
	fmt.Println("deleted", must(client.DeleteSubject(ctx, subject, sr.SoftDelete)))
	_, err := client.SchemaByVersion(ctx, subject, 1)
	if errors.As(err, &refused) {
		fmt.Println("gone", refused.ErrorCode)
	}
}
