package git

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Signer makes ssh signatures without ssh-keygen.
type Signer interface {
	// Public is the public key in the form of authorized_keys, without comment.
	Public() string
	// Sign gives an armored signature over message for a namespace, in the
	// format of openssh's PROTOCOL.sshsig.
	Sign(namespace string, message []byte) (string, error)
}

const (
	sshsigMagic  = "SSHSIG"
	sshsigHash   = "sha512"
	sshsigArmour = "SSH SIGNATURE"
)

// signedData is what an sshsig signature covers.
type signedData struct {
	Namespace, Reserved, HashAlgorithm, Hash string
}

// sshsig is the signature's own wire form, after the magic.
type sshsig struct {
	Version                                                  uint32
	PublicKey, Namespace, Reserved, HashAlgorithm, Signature string
}

type keySigner struct{ key ssh.Signer }

// LoadKey reads the private key at path, or makes an ed25519 key there (mode
// 0600) when there is none.
func LoadKey(path string) (Signer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("load signing key: %w", err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("load signing key %q: %w: an unencrypted ssh private key is wanted", path, err)
	}
	return keySigner{key}, nil
}

// makeKey writes a key aside and links it into place, so that of two processes
// one wins and both read the same key.
func makeKey(path string) ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "greenward")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "key-") // mode 0600
	if err != nil {
		return nil, err
	}
	_, writeErr := f.Write(pem.EncodeToMemory(block))
	linkErr := errors.Join(writeErr, f.Close())
	if linkErr == nil {
		linkErr = os.Link(f.Name(), path)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	if linkErr != nil && !errors.Is(linkErr, fs.ErrExist) {
		return nil, linkErr
	}
	return os.ReadFile(path)
}

func (k keySigner) Public() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.key.PublicKey())))
}

func (k keySigner) Sign(namespace string, message []byte) (string, error) {
	signed := append([]byte(sshsigMagic), ssh.Marshal(covered(namespace, message))...)
	sig, err := k.key.Sign(rand.Reader, signed)
	if err != nil {
		return "", err
	}
	blob := append([]byte(sshsigMagic), ssh.Marshal(sshsig{
		Version: 1, PublicKey: string(k.key.PublicKey().Marshal()), Namespace: namespace,
		HashAlgorithm: sshsigHash, Signature: string(ssh.Marshal(sig)),
	})...)
	return string(pem.EncodeToMemory(&pem.Block{Type: sshsigArmour, Bytes: blob})), nil
}

func covered(namespace string, message []byte) signedData {
	sum := sha512.Sum512(message)
	return signedData{Namespace: namespace, HashAlgorithm: sshsigHash, Hash: string(sum[:])}
}

// VerifySSH checks an armored signature over message and gives the public key
// that made it, in the form of Signer.Public. Whether that key is trusted is
// the caller's question.
func VerifySSH(armored, namespace string, message []byte) (string, error) {
	block, _ := pem.Decode([]byte(armored))
	if block == nil || block.Type != sshsigArmour {
		return "", errors.New("no ssh signature")
	}
	blob, ok := bytes.CutPrefix(block.Bytes, []byte(sshsigMagic))
	var s sshsig
	if err := ssh.Unmarshal(blob, &s); !ok || err != nil || s.Version != 1 {
		return "", errors.New("malformed ssh signature")
	}
	if s.Namespace != namespace || s.HashAlgorithm != sshsigHash {
		return "", fmt.Errorf("signature for namespace %q with %q; %q with %s is wanted", s.Namespace, s.HashAlgorithm, namespace, sshsigHash)
	}
	key, err := ssh.ParsePublicKey([]byte(s.PublicKey))
	if err != nil {
		return "", fmt.Errorf("read the signature's key: %w", err)
	}
	var sig ssh.Signature
	if err := ssh.Unmarshal([]byte(s.Signature), &sig); err != nil {
		return "", fmt.Errorf("read the signature: %w", err)
	}
	signed := append([]byte(sshsigMagic), ssh.Marshal(covered(namespace, message))...)
	if err := key.Verify(signed, &sig); err != nil {
		return "", errors.New("the signature does not fit the text")
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), nil
}

// AllowedSigners is a line of an allowed signers file that lets a key sign as principal.
func AllowedSigners(principal, public string) string { return principal + " " + public + "\n" }
