package cupti

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/cupti/privatefolder"
)

// The folder of a server has the embedded library, until the first Close.
func TestServerFolder(t *testing.T) {
	t.Parallel()
	s, err := Listen(Options{Sink: nowhere{}, bases: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(s.dir, privatefolder.LibraryName))
	if err != nil || !slices.Equal(got, library) {
		t.Errorf("the library has %d bytes, %v", len(got), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}
