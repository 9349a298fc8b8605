"""End-to-end encryption of values: producers encrypt, consumers decrypt, brokers and disks see only ciphertext.

`envelope` defines the format, `encryptor` and `decryptor` implement it, `fields` applies it to single JSON fields.
`ottla.client.encryption` provides the keys; user code imports `ottla.encryption`.
"""
