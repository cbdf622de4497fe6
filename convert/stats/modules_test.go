package stats

import (
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// TestModulesOf finds the functions forward of a stack, each once; those of Pythons without qualified names, too.
func TestModulesOf(t *testing.T) {
	t.Parallel()
	frame := func(file, function string, first uint32, outer *timeline.Python) *timeline.Python {
		return &timeline.Python{PythonFrame: &timeline.PythonFrame{File: file, Function: function, First: first}, Parent: outer}
	}
	at := frame("/home/ann/model.py", "Net.forward", 3, nil)
	at = frame("/venv/lib/python3.10/site-packages/torch/nn/modules/module.py", "_call_impl", 1, at)
	at = frame("/home/ann/model.py", "forward", 40, at)
	at = frame("/home/ann/model.py", "forward", 40, at)
	at = frame("/home/ann/model.py", "forward", 60, at)
	at = frame("/home/ann/model.py", "step_forward", 80, at)
	want := []moduleKey{
		{"model.py(60): forward", "model.py"}, {"model.py(40): forward", "model.py"}, {"Net.forward", "model.py"},
	}
	if got := modulesOf(at); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
