package tools

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// write replaces a whole file.
func (w *Workspace) write(_ context.Context, a *arguments) (string, error) {
	name := a.text("path")
	content := a.text("content")
	if err := a.check(); err != nil {
		return "", err
	}
	p, err := w.locateForWriting(name)
	if err != nil {
		return "", err
	}
	data, note := []byte(content), ""
	if p.exists() && p.info.Size() <= maxFile {
		old, err := p.load()
		if err != nil {
			return "", err
		}
		data, note = inspect(old).keep(content)
	}
	if err := w.save(p, data); err != nil {
		return "", err
	}
	verb := "wrote"
	if !p.exists() {
		verb = "created"
	}
	return fmt.Sprintf("%s %s: %d bytes, %d lines%s", verb, show(name), len(data), strings.Count(content, "\n"), note), nil
}

// keep makes the bytes of content in the manner of the file that it replaces.
func (c coded) keep(content string) (data []byte, note string) {
	ending := "\n"
	if c.coding == binary {
		return []byte(content), ""
	}
	if lf, crlf := c.endings(c.mark, len(c.data)); lf == 0 && crlf > 0 {
		ending, note = "\r\n", ", with CR LF as before"
	}
	plain := strings.TrimPrefix(content, "\uFEFF")
	if ending != "\n" {
		plain = strings.ReplaceAll(plain, "\r\n", "\n")
	}
	data, err := c.encode(plain, ending)
	if err != nil { // the old coding has no such character
		return []byte(content), ", now as UTF-8"
	}
	if c.coding != utf8Text {
		note += ", as " + c.String()
	}
	if c.mark == 0 {
		return data, note
	}
	return append(append([]byte(nil), c.data[:c.mark]...), data...), note
}

// save puts data in the place of the file, whole or not at all, keeping its
// mode. The new file waits in .git, where a crash leaves nothing that anybody
// commits; where .git is no directory the file is written in place.
func (w *Workspace) save(p place, data []byte) error {
	mode := fs.FileMode(0o644)
	if p.exists() {
		mode = p.info.Mode().Perm()
	} else if dir := path.Dir(p.real); dir != "." {
		if err := w.root.MkdirAll(dir, 0o755); err != nil {
			return faultf("%s: its directory can't be made: %v", show(p.name), cause(err))
		}
	}
	err := errors.ErrUnsupported
	if info, serr := w.root.Lstat(".git"); serr == nil && info.IsDir() {
		err = w.swap(p.real, data, mode)
	}
	// A file may be writable where its directory is not. Other trouble, as a
	// full disk, must not reach the file that is there.
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EXDEV) {
		err = w.root.WriteFile(p.real, data, mode)
	}
	if err != nil {
		return faultf("%s: %v", show(p.name), cause(err))
	}
	return nil
}

func (w *Workspace) swap(name string, data []byte, mode fs.FileMode) error {
	var b [8]byte
	rand.Read(b[:]) // never fails: it would end the program instead
	temp := ".git/greenward-" + hex.EncodeToString(b[:])
	f, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		if err = w.root.Chmod(temp, mode); err == nil { // the umask may have taken some
			err = w.root.Rename(temp, name)
		}
	}
	if err != nil {
		return errors.Join(err, w.root.Remove(temp))
	}
	return nil
}
