package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A plotFile is the file of a plot, made before what is plotted is measured: it must not fail
// after it.
type plotFile struct {
	temporary *os.File
	name      string
}

// createPlot returns nil for no name.
func createPlot(name string) (*plotFile, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".opebench-plot-")
	if err != nil {
		return nil, fmt.Errorf("write the plot into %s: %w", filepath.Dir(name), withoutName(err))
	}
	return &plotFile{f, name}, nil
}

// save writes the picture and gives the file its name. It takes what drawing returns.
func (p *plotFile) save(picture []byte, err error) error {
	if err != nil {
		return fmt.Errorf("draw the plot: %w", err)
	}
	_, err = p.temporary.Write(picture)
	if err == nil {
		err = p.temporary.Chmod(0o644) // a picture is for everyone
	}
	if err = errors.Join(err, p.temporary.Close()); err == nil {
		err = os.Rename(p.temporary.Name(), p.name)
	}
	if err != nil {
		return fmt.Errorf("write the plot %s: %w", p.name, withoutName(err))
	}
	return nil
}

// discard removes a file that was not saved. Both calls fail when all went well: the file is
// closed, and has another name.
func (p *plotFile) discard() {
	if p != nil {
		_ = p.temporary.Close()
		_ = os.Remove(p.temporary.Name())
	}
}

// withoutName returns an error without the name of the temporary file, which says nothing to
// anybody.
func withoutName(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
