"""Values encrypted by who writes them and decrypted by who reads them: brokers and disks see neither.

`envelope` says what an encrypted value looks like, `encryptor` and `decryptor` make and open them, `fields` does it for
single fields of JSON. Where keys come from is in `ottla.client.encryption`; code of users imports `ottla.encryption`.
"""
