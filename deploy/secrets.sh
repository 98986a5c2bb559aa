#!/bin/sh
# Makes the secret files that docker-compose.yaml names. What exists is kept: run it again after a new one was added.
#   sh deploy/secrets.sh [FOLDER]
set -eu
umask 077
folder=${1:-$(dirname "$0")/secrets}
mkdir -p "$folder"

random() { # letters and digits, 192 bits: nothing that a URL, YAML or JSON would have to quote
    head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'
}

make() { # NAME TEXT
    if [ ! -e "$folder/$1" ]; then
        printf '%s\n' "$2" > "$folder/$1"
        echo "made $folder/$1"
    fi
}

make gateway-users.yaml "orders-app: \"$(random)\""
make gateway-phantoms "$(random)"
make service-password "$(random)"
make postgres-password "$(random)"
make airflow-database-url "postgresql+psycopg://airflow:$(cat "$folder/postgres-password")@postgres:5432/airflow"
make airflow-fernet-key "$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')"
make airflow-jwt-secret "$(random)$(random)"
make airflow-api-secret "$(random)"
make airflow-passwords.json "{\"admin\": \"$(random)\"}"
