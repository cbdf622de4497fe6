// Recordgen generates what knows the fields of a log's records. Input: the tables of package
// schema. Output: the Go types and their methods, the structs in which the injected library sends
// them, and the Go code that decodes these. `go generate ./record/tracelog` runs it in the folder
// of package tracelog.
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

// write writes the source files below the current folder and beside it.
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
