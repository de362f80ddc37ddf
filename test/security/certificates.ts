import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** PEM texts of one party. */
export interface Identity {
  readonly cert: string;
  readonly key: string;
}

/** An authority with a server for loopback and a client, and a client of an unknown authority. */
export interface Certificates {
  readonly ca: string;
  readonly server: Identity;
  readonly client: Identity;
  readonly stranger: Identity;
}

/**
 * Makes new ones, valid for a day, in a temporary folder that is gone afterwards.
 * @throws {Error} that says how to get openssl when there is none
 */
export async function makeCertificates(): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), 'fenced-lock-tls-'));
  const file = (name: string) => join(folder, name);
  const read = (name: string) => readFile(file(name), 'utf8');
  const identity = async (name: string): Promise<Identity> => ({
    cert: await read(`${name}.crt`),
    key: await read(`${name}.key`),
  });
  try {
    await writeFile(file('server.ext'), 'subjectAltName=IP:127.0.0.1,DNS:localhost\n');
    await writeFile(file('client.ext'), 'extendedKeyUsage=clientAuth\n');
    for (const name of ['ca', 'otherca']) {
      const files = `-keyout ${name}.key -out ${name}.crt`;
      await openssl(folder, `req -x509 ${NEW_KEY} -subj /CN=${name} -days 1 ${files}`);
    }
    await sign(folder, 'server', 'ca');
    await sign(folder, 'client', 'ca');
    await sign(folder, 'stranger', 'otherca');
    return {
      ca: await read('ca.crt'),
      server: await identity('server'),
      client: await identity('client'),
      stranger: await identity('stranger'),
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const NEW_KEY = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';

async function sign(folder: string, name: string, authority: string): Promise<void> {
  await openssl(folder, `req ${NEW_KEY} -subj /CN=${name} -keyout ${name}.key -out ${name}.csr`);
  const issuer = `-CA ${authority}.crt -CAkey ${authority}.key -CAcreateserial`;
  const extensions = `-extfile ${name === 'server' ? 'server' : 'client'}.ext`;
  await openssl(
    folder,
    `x509 -req -in ${name}.csr -days 1 ${extensions} -out ${name}.crt ${issuer}`,
  );
}

async function openssl(folder: string, parameters: string): Promise<void> {
  try {
    await promisify(execFile)('openssl', parameters.split(' '), { cwd: folder });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new Error('The TLS tests make their certificates with openssl: apt-get install openssl', {
      cause: error,
    });
  }
}
