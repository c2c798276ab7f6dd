package git

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"greenward/internal/git/pack"

	"github.com/go-git/go-git/v5/plumbing"
)

// packOf is a pack that holds the objects, and its index.
func (r *Repo) packOf(order []Hash, list []object) (pack.Pack, error) {
	objects := make([]pack.Object, len(list))
	for i, o := range list {
		objects[i] = pack.Object{Name: string(order[i]), Kind: pack.Kind(o.kind), Data: o.data}
	}
	return pack.Build(objects, &r.zips)
}

// deflateLoose is an object as a file of its own holds it.
func (r *Repo) deflateLoose(o object) ([]byte, error) {
	var file bytes.Buffer
	head := fmt.Appendf(nil, "%s %d\x00", o.kind, len(o.data))
	if o.kind != plumbing.BlobObject && len(head)+len(o.data) < pack.MaxStored {
		pack.Stored(&file, append(head, o.data...))
		return file.Bytes(), nil
	}
	err := r.zips.Deflate(&file, head, o.data)
	return file.Bytes(), err
}

// inflateLoose reads an object from a file of its own.
func inflateLoose(file []byte) (object, error) {
	z, err := zlib.NewReader(bytes.NewReader(file))
	if err != nil {
		return object{}, err
	}
	all, err := io.ReadAll(z)
	if err := errors.Join(err, z.Close()); err != nil {
		return object{}, err
	}
	head, data, _ := bytes.Cut(all, []byte{0})
	name, size, _ := strings.Cut(string(head), " ")
	kind, err := plumbing.ParseObjectType(name)
	if err != nil || size != strconv.Itoa(len(data)) {
		return object{}, fmt.Errorf("%q does not begin an object of %d bytes", head, len(data))
	}
	return object{kind: kind, data: data}, nil
}
