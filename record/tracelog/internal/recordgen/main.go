// Recordgen generates the Go types of a log's records. In go the tables of package schema; out
// come the types and their methods. `go generate ./record/tracelog` runs it in the folder of
// package tracelog.
package main

import (
	"fmt"
	"os"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "recordgen:", err)
		os.Exit(1)
	}
}

// write writes the source files into the current folder.
func write() error {
	files, err := generate(schema.Records())
	if err != nil {
		return err
	}
	for name, source := range files {
		if err := os.WriteFile(name, source, 0o644); err != nil {
			return err
		}
	}
	return nil
}
