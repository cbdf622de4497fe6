package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bounds of what a reader of the code has before them at once. Tests do not count.
const (
	maxFiles   = 20 // of a package
	maxMethods = 25 // of a type
	maxLines   = 60 // of a function, with its first and its last
)

// TestLayersBounds holds the size of packages, types and functions.
func TestLayersBounds(t *testing.T) {
	t.Parallel()
	for _, p := range packageDeps(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		if len(files) > maxFiles {
			t.Errorf("%s has %d files, more than %d", p.ImportPath, len(files), maxFiles)
		}
		methods := make(map[string]map[string]bool) // by type and name: a method of each processor is one
		for _, name := range files {
			functionsOf(t, name, methods)
		}
		for typ, names := range methods {
			if len(names) > maxMethods {
				t.Errorf("%s.%s has %d methods, more than %d", p.ImportPath, typ, len(names), maxMethods)
			}
		}
	}
}

// functionsOf adds the methods of a file, and checks the length of its functions.
func functionsOf(t *testing.T, name string, methods map[string]map[string]bool) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > maxLines && !ast.IsGenerated(file) {
			t.Errorf("%s: %s has %d lines, more than %d", name, f.Name.Name, n, maxLines)
		}
		if f.Recv == nil {
			continue
		}
		typ := receiver(f.Recv.List[0].Type)
		if methods[typ] == nil {
			methods[typ] = make(map[string]bool)
		}
		methods[typ][f.Name.Name] = true
	}
}

// receiver is the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
